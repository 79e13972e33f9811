#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD [GROUP…]: runs unmodified programs of others against the warm in BUILD. A group has its
# pinned packages in tests/clients/GROUP.txt, and its tests in tests/clients/GROUP_*.py. With
# CLIENTS_SHORT=1 one real program of each group runs, cold and warm.
set -u
unset CC CXX # those of make are for the build; programs read them, too
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- $(cd "$here" && ls *.txt | sed 's/\.txt$//')
failed=
skipped=

# short_form GROUP: prints the file and the test of a group's short form.
short_form() {
    case $1 in
    cute) echo cute_kernels.py Kernels.test_a_process_in_another_folder_hits_with_the_module_of_a_compile ;;
    driver) echo driver_cuda.py Driver.test_cuda_bindings_module ;;
    jax) echo jax_cache.py Keys.test_another_process_with_other_names_in_another_folder_hits_with_the_same_bits ;;
    jaxcuda) echo jaxcuda_driver.py Driver.test_a_client_of_the_plugin ;;
    jaxold) echo jaxold_mlir.py Passes.test_another_process_gets_the_module_that_the_passes_gave ;;
    models) echo models_training.py Models.test_a_loss_of_two_towers ;;
    nvrtc) echo nvrtc_programs.py Programs.test_cupy ;;
    nvrtc12) echo nvrtc12_programs.py Programs.test_cuda_core ;;
    pjrt) echo pjrt_plugins.py XlaCpuPjrt.test_fresh_process_is_warm_under_other_names ;;
    python) echo python_package.py Api.test_values_of_all_sizes_come_back ;;
    tier) echo tier_engines.py Engines.test_rclone_has_no_leases ;;
    tile) echo tile_kernels.py Kernels.test_a_kernel_of_the_same_file_is_warm_in_another_home_with_the_same_bits ;;
    tools) echo tools_compilers.py Nvcc.test_checks_of_generated_sources_do_not_show_the_home ;;
    torch) echo torch_training.py \
        Training.test_a_fresh_process_and_folder_is_warm_and_no_compiler_has_to_work ;;
    torchold) echo torchold_training.py \
        Training.test_a_fresh_process_and_folder_is_warm_and_no_compiler_has_to_work ;;
    triton) echo triton_kernels.py \
        Kernels.test_six_kernels_are_warm_in_a_fresh_process_and_folder ;;
    warp) echo warp_kernels.py Kernels.test_a_kernel_for_the_cpu_hits_in_another_folder_and_runs ;;
    *) echo "clients: the group $1 has no short form" >&2 && return 1 ;;
    esac
}

# run_test FILE [TEST]: runs the tests of a file, or one of them.
run_test() {
    test=$1
    shift
    echo "clients: $test"
    WARM_BUILD=$build PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 \
        timeout "${WARM_CLIENTS_TIMEOUT:-1200}" "$venv/bin/python" "$here/$test" -v "$@" ||
        failed="$failed $test"
}

for group; do
    venv=$("$here/venv.sh" "$here/$group.txt")
    case $? in
    0) ;;
    3) skipped="$skipped $group" && continue ;;
    *) failed="$failed $group" && continue ;;
    esac
    if [ -n "${CLIENTS_SHORT:-}" ]; then
        short=$(short_form "$group") || exit 1
        run_test $short
        continue
    fi
    for path in "$here/${group}"_*.py; do
        run_test "$(basename "$path")"
    done
done
[ -z "$skipped" ] || echo "clients: skipped, the package index cannot be reached:$skipped"
[ -z "$failed" ] || { echo "clients: FAILED:$failed"; exit 1; }
echo "clients: all passed"
