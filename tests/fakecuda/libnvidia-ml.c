/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.c - a stand-in for libnvidia-ml.so.1, which comes with a driver. XLA looks for it before it asks the
 * driver for its devices.
 */
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 1;
    return 0;
}
