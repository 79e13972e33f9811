module @jit_adam attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x1xf32>, %arg5: tensor<1xf32>, %arg6: tensor<1x16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16x16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16x1xf32>, %arg11: tensor<1xf32>, %arg12: tensor<1x16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x16xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16x1xf32>, %arg17: tensor<1xf32>, %arg18: tensor<1x16xf32>, %arg19: tensor<16xf32>, %arg20: tensor<16x16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<16x1xf32>, %arg23: tensor<1xf32>, %arg24: tensor<f32>) -> (tensor<1x16xf32> {jax.result_info = "result[0][0]"}, tensor<16xf32> {jax.result_info = "result[0][1]"}, tensor<16x16xf32> {jax.result_info = "result[0][2]"}, tensor<16xf32> {jax.result_info = "result[0][3]"}, tensor<16x1xf32> {jax.result_info = "result[0][4]"}, tensor<1xf32> {jax.result_info = "result[0][5]"}, tensor<1x16xf32> {jax.result_info = "result[1][0]"}, tensor<16xf32> {jax.result_info = "result[1][1]"}, tensor<16x16xf32> {jax.result_info = "result[1][2]"}, tensor<16xf32> {jax.result_info = "result[1][3]"}, tensor<16x1xf32> {jax.result_info = "result[1][4]"}, tensor<1xf32> {jax.result_info = "result[1][5]"}, tensor<1x16xf32> {jax.result_info = "result[2][0]"}, tensor<16xf32> {jax.result_info = "result[2][1]"}, tensor<16x16xf32> {jax.result_info = "result[2][2]"}, tensor<16xf32> {jax.result_info = "result[2][3]"}, tensor<16x1xf32> {jax.result_info = "result[2][4]"}, tensor<1xf32> {jax.result_info = "result[2][5]"}, tensor<f32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.add %arg24, %cst : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %2 = stablehlo.multiply %1, %arg12 : tensor<1x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %4 = stablehlo.multiply %3, %arg6 : tensor<1x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<1x16xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %7 = stablehlo.multiply %6, %arg13 : tensor<16xf32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %9 = stablehlo.multiply %8, %arg7 : tensor<16xf32>
    %10 = stablehlo.add %7, %9 : tensor<16xf32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %12 = stablehlo.multiply %11, %arg14 : tensor<16x16xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %14 = stablehlo.multiply %13, %arg8 : tensor<16x16xf32>
    %15 = stablehlo.add %12, %14 : tensor<16x16xf32>
    %cst_6 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %17 = stablehlo.multiply %16, %arg15 : tensor<16xf32>
    %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %19 = stablehlo.multiply %18, %arg9 : tensor<16xf32>
    %20 = stablehlo.add %17, %19 : tensor<16xf32>
    %cst_8 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %22 = stablehlo.multiply %21, %arg16 : tensor<16x1xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %24 = stablehlo.multiply %23, %arg10 : tensor<16x1xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x1xf32>
    %cst_10 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %27 = stablehlo.multiply %26, %arg17 : tensor<1xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %29 = stablehlo.multiply %28, %arg11 : tensor<1xf32>
    %30 = stablehlo.add %27, %29 : tensor<1xf32>
    %cst_12 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %32 = stablehlo.multiply %31, %arg18 : tensor<1x16xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %34 = stablehlo.multiply %33, %arg6 : tensor<1x16xf32>
    %35 = stablehlo.multiply %34, %arg6 : tensor<1x16xf32>
    %36 = stablehlo.add %32, %35 : tensor<1x16xf32>
    %cst_14 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %38 = stablehlo.multiply %37, %arg19 : tensor<16xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %40 = stablehlo.multiply %39, %arg7 : tensor<16xf32>
    %41 = stablehlo.multiply %40, %arg7 : tensor<16xf32>
    %42 = stablehlo.add %38, %41 : tensor<16xf32>
    %cst_16 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %44 = stablehlo.multiply %43, %arg20 : tensor<16x16xf32>
    %cst_17 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %46 = stablehlo.multiply %45, %arg8 : tensor<16x16xf32>
    %47 = stablehlo.multiply %46, %arg8 : tensor<16x16xf32>
    %48 = stablehlo.add %44, %47 : tensor<16x16xf32>
    %cst_18 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %50 = stablehlo.multiply %49, %arg21 : tensor<16xf32>
    %cst_19 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %52 = stablehlo.multiply %51, %arg9 : tensor<16xf32>
    %53 = stablehlo.multiply %52, %arg9 : tensor<16xf32>
    %54 = stablehlo.add %50, %53 : tensor<16xf32>
    %cst_20 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %56 = stablehlo.multiply %55, %arg22 : tensor<16x1xf32>
    %cst_21 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %58 = stablehlo.multiply %57, %arg10 : tensor<16x1xf32>
    %59 = stablehlo.multiply %58, %arg10 : tensor<16x1xf32>
    %60 = stablehlo.add %56, %59 : tensor<16x1xf32>
    %cst_22 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %62 = stablehlo.multiply %61, %arg23 : tensor<1xf32>
    %cst_23 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %64 = stablehlo.multiply %63, %arg11 : tensor<1xf32>
    %65 = stablehlo.multiply %64, %arg11 : tensor<1xf32>
    %66 = stablehlo.add %62, %65 : tensor<1xf32>
    %cst_24 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %67 = stablehlo.power %cst_24, %0 : tensor<f32>
    %cst_25 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %68 = stablehlo.subtract %cst_25, %67 : tensor<f32>
    %cst_26 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %69 = stablehlo.divide %cst_26, %68 : tensor<f32>
    %cst_27 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %70 = stablehlo.power %cst_27, %0 : tensor<f32>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %71 = stablehlo.subtract %cst_28, %70 : tensor<f32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %72 = stablehlo.divide %cst_29, %71 : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %74 = stablehlo.multiply %73, %5 : tensor<1x16xf32>
    %75 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %76 = stablehlo.multiply %36, %75 : tensor<1x16xf32>
    %77 = stablehlo.sqrt %76 : tensor<1x16xf32>
    %cst_30 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %79 = stablehlo.add %77, %78 : tensor<1x16xf32>
    %80 = stablehlo.divide %74, %79 : tensor<1x16xf32>
    %81 = stablehlo.subtract %arg0, %80 : tensor<1x16xf32>
    %82 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %83 = stablehlo.multiply %82, %10 : tensor<16xf32>
    %84 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %85 = stablehlo.multiply %42, %84 : tensor<16xf32>
    %86 = stablehlo.sqrt %85 : tensor<16xf32>
    %cst_31 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %88 = stablehlo.add %86, %87 : tensor<16xf32>
    %89 = stablehlo.divide %83, %88 : tensor<16xf32>
    %90 = stablehlo.subtract %arg1, %89 : tensor<16xf32>
    %91 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %92 = stablehlo.multiply %91, %15 : tensor<16x16xf32>
    %93 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %94 = stablehlo.multiply %48, %93 : tensor<16x16xf32>
    %95 = stablehlo.sqrt %94 : tensor<16x16xf32>
    %cst_32 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %97 = stablehlo.add %95, %96 : tensor<16x16xf32>
    %98 = stablehlo.divide %92, %97 : tensor<16x16xf32>
    %99 = stablehlo.subtract %arg2, %98 : tensor<16x16xf32>
    %100 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %101 = stablehlo.multiply %100, %20 : tensor<16xf32>
    %102 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %103 = stablehlo.multiply %54, %102 : tensor<16xf32>
    %104 = stablehlo.sqrt %103 : tensor<16xf32>
    %cst_33 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %106 = stablehlo.add %104, %105 : tensor<16xf32>
    %107 = stablehlo.divide %101, %106 : tensor<16xf32>
    %108 = stablehlo.subtract %arg3, %107 : tensor<16xf32>
    %109 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %110 = stablehlo.multiply %109, %25 : tensor<16x1xf32>
    %111 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %112 = stablehlo.multiply %60, %111 : tensor<16x1xf32>
    %113 = stablehlo.sqrt %112 : tensor<16x1xf32>
    %cst_34 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %115 = stablehlo.add %113, %114 : tensor<16x1xf32>
    %116 = stablehlo.divide %110, %115 : tensor<16x1xf32>
    %117 = stablehlo.subtract %arg4, %116 : tensor<16x1xf32>
    %118 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %119 = stablehlo.multiply %118, %30 : tensor<1xf32>
    %120 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %121 = stablehlo.multiply %66, %120 : tensor<1xf32>
    %122 = stablehlo.sqrt %121 : tensor<1xf32>
    %cst_35 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %124 = stablehlo.add %122, %123 : tensor<1xf32>
    %125 = stablehlo.divide %119, %124 : tensor<1xf32>
    %126 = stablehlo.subtract %arg5, %125 : tensor<1xf32>
    return %81, %90, %99, %108, %117, %126, %5, %10, %15, %20, %25, %30, %36, %42, %48, %54, %60, %66, %0 : tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<f32>
  }
}
