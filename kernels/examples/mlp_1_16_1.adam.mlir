module @jit_adam attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x1xf32>, %arg3: tensor<1xf32>, %arg4: tensor<1x16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x1xf32>, %arg7: tensor<1xf32>, %arg8: tensor<1x16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16x1xf32>, %arg11: tensor<1xf32>, %arg12: tensor<1x16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x1xf32>, %arg15: tensor<1xf32>, %arg16: tensor<f32>) -> (tensor<1x16xf32> {jax.result_info = "result[0][0]"}, tensor<16xf32> {jax.result_info = "result[0][1]"}, tensor<16x1xf32> {jax.result_info = "result[0][2]"}, tensor<1xf32> {jax.result_info = "result[0][3]"}, tensor<1x16xf32> {jax.result_info = "result[1][0]"}, tensor<16xf32> {jax.result_info = "result[1][1]"}, tensor<16x1xf32> {jax.result_info = "result[1][2]"}, tensor<1xf32> {jax.result_info = "result[1][3]"}, tensor<1x16xf32> {jax.result_info = "result[2][0]"}, tensor<16xf32> {jax.result_info = "result[2][1]"}, tensor<16x1xf32> {jax.result_info = "result[2][2]"}, tensor<1xf32> {jax.result_info = "result[2][3]"}, tensor<f32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.add %arg16, %cst : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %2 = stablehlo.multiply %1, %arg8 : tensor<1x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %4 = stablehlo.multiply %3, %arg4 : tensor<1x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<1x16xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %7 = stablehlo.multiply %6, %arg9 : tensor<16xf32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %9 = stablehlo.multiply %8, %arg5 : tensor<16xf32>
    %10 = stablehlo.add %7, %9 : tensor<16xf32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %12 = stablehlo.multiply %11, %arg10 : tensor<16x1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %14 = stablehlo.multiply %13, %arg6 : tensor<16x1xf32>
    %15 = stablehlo.add %12, %14 : tensor<16x1xf32>
    %cst_6 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %17 = stablehlo.multiply %16, %arg11 : tensor<1xf32>
    %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %19 = stablehlo.multiply %18, %arg7 : tensor<1xf32>
    %20 = stablehlo.add %17, %19 : tensor<1xf32>
    %cst_8 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %22 = stablehlo.multiply %21, %arg12 : tensor<1x16xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %24 = stablehlo.multiply %23, %arg4 : tensor<1x16xf32>
    %25 = stablehlo.multiply %24, %arg4 : tensor<1x16xf32>
    %26 = stablehlo.add %22, %25 : tensor<1x16xf32>
    %cst_10 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %28 = stablehlo.multiply %27, %arg13 : tensor<16xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %30 = stablehlo.multiply %29, %arg5 : tensor<16xf32>
    %31 = stablehlo.multiply %30, %arg5 : tensor<16xf32>
    %32 = stablehlo.add %28, %31 : tensor<16xf32>
    %cst_12 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %34 = stablehlo.multiply %33, %arg14 : tensor<16x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %36 = stablehlo.multiply %35, %arg6 : tensor<16x1xf32>
    %37 = stablehlo.multiply %36, %arg6 : tensor<16x1xf32>
    %38 = stablehlo.add %34, %37 : tensor<16x1xf32>
    %cst_14 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %40 = stablehlo.multiply %39, %arg15 : tensor<1xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %42 = stablehlo.multiply %41, %arg7 : tensor<1xf32>
    %43 = stablehlo.multiply %42, %arg7 : tensor<1xf32>
    %44 = stablehlo.add %40, %43 : tensor<1xf32>
    %cst_16 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %45 = stablehlo.power %cst_16, %0 : tensor<f32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %46 = stablehlo.subtract %cst_17, %45 : tensor<f32>
    %cst_18 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %47 = stablehlo.divide %cst_18, %46 : tensor<f32>
    %cst_19 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %48 = stablehlo.power %cst_19, %0 : tensor<f32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %49 = stablehlo.subtract %cst_20, %48 : tensor<f32>
    %cst_21 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %50 = stablehlo.divide %cst_21, %49 : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %52 = stablehlo.multiply %51, %5 : tensor<1x16xf32>
    %53 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %54 = stablehlo.multiply %26, %53 : tensor<1x16xf32>
    %55 = stablehlo.sqrt %54 : tensor<1x16xf32>
    %cst_22 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %57 = stablehlo.add %55, %56 : tensor<1x16xf32>
    %58 = stablehlo.divide %52, %57 : tensor<1x16xf32>
    %59 = stablehlo.subtract %arg0, %58 : tensor<1x16xf32>
    %60 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %61 = stablehlo.multiply %60, %10 : tensor<16xf32>
    %62 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %63 = stablehlo.multiply %32, %62 : tensor<16xf32>
    %64 = stablehlo.sqrt %63 : tensor<16xf32>
    %cst_23 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %66 = stablehlo.add %64, %65 : tensor<16xf32>
    %67 = stablehlo.divide %61, %66 : tensor<16xf32>
    %68 = stablehlo.subtract %arg1, %67 : tensor<16xf32>
    %69 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %70 = stablehlo.multiply %69, %15 : tensor<16x1xf32>
    %71 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %72 = stablehlo.multiply %38, %71 : tensor<16x1xf32>
    %73 = stablehlo.sqrt %72 : tensor<16x1xf32>
    %cst_24 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %75 = stablehlo.add %73, %74 : tensor<16x1xf32>
    %76 = stablehlo.divide %70, %75 : tensor<16x1xf32>
    %77 = stablehlo.subtract %arg2, %76 : tensor<16x1xf32>
    %78 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %79 = stablehlo.multiply %78, %20 : tensor<1xf32>
    %80 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %81 = stablehlo.multiply %44, %80 : tensor<1xf32>
    %82 = stablehlo.sqrt %81 : tensor<1xf32>
    %cst_25 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %84 = stablehlo.add %82, %83 : tensor<1xf32>
    %85 = stablehlo.divide %79, %84 : tensor<1xf32>
    %86 = stablehlo.subtract %arg3, %85 : tensor<1xf32>
    return %59, %68, %77, %86, %5, %10, %15, %20, %26, %32, %38, %44, %0 : tensor<1x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<f32>
  }
}
