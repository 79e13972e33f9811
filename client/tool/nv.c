/* SPDX-License-Identifier: Apache-2.0 */
#include "client/tool/tool.h"
int nv_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    (void)job, (void)w;
    return err_set(e, WARM_EREFUSED, "not yet");
}
