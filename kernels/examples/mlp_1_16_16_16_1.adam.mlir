module @jit_adam attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x1xf32>, %arg7: tensor<1xf32>, %arg8: tensor<1x16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16x16xf32>, %arg11: tensor<16xf32>, %arg12: tensor<16x16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x1xf32>, %arg15: tensor<1xf32>, %arg16: tensor<1x16xf32>, %arg17: tensor<16xf32>, %arg18: tensor<16x16xf32>, %arg19: tensor<16xf32>, %arg20: tensor<16x16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<16x1xf32>, %arg23: tensor<1xf32>, %arg24: tensor<1x16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16x16xf32>, %arg27: tensor<16xf32>, %arg28: tensor<16x16xf32>, %arg29: tensor<16xf32>, %arg30: tensor<16x1xf32>, %arg31: tensor<1xf32>, %arg32: tensor<f32>) -> (tensor<1x16xf32> {jax.result_info = "result[0][0]"}, tensor<16xf32> {jax.result_info = "result[0][1]"}, tensor<16x16xf32> {jax.result_info = "result[0][2]"}, tensor<16xf32> {jax.result_info = "result[0][3]"}, tensor<16x16xf32> {jax.result_info = "result[0][4]"}, tensor<16xf32> {jax.result_info = "result[0][5]"}, tensor<16x1xf32> {jax.result_info = "result[0][6]"}, tensor<1xf32> {jax.result_info = "result[0][7]"}, tensor<1x16xf32> {jax.result_info = "result[1][0]"}, tensor<16xf32> {jax.result_info = "result[1][1]"}, tensor<16x16xf32> {jax.result_info = "result[1][2]"}, tensor<16xf32> {jax.result_info = "result[1][3]"}, tensor<16x16xf32> {jax.result_info = "result[1][4]"}, tensor<16xf32> {jax.result_info = "result[1][5]"}, tensor<16x1xf32> {jax.result_info = "result[1][6]"}, tensor<1xf32> {jax.result_info = "result[1][7]"}, tensor<1x16xf32> {jax.result_info = "result[2][0]"}, tensor<16xf32> {jax.result_info = "result[2][1]"}, tensor<16x16xf32> {jax.result_info = "result[2][2]"}, tensor<16xf32> {jax.result_info = "result[2][3]"}, tensor<16x16xf32> {jax.result_info = "result[2][4]"}, tensor<16xf32> {jax.result_info = "result[2][5]"}, tensor<16x1xf32> {jax.result_info = "result[2][6]"}, tensor<1xf32> {jax.result_info = "result[2][7]"}, tensor<f32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.add %arg32, %cst : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %2 = stablehlo.multiply %1, %arg16 : tensor<1x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %4 = stablehlo.multiply %3, %arg8 : tensor<1x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<1x16xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %7 = stablehlo.multiply %6, %arg17 : tensor<16xf32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %9 = stablehlo.multiply %8, %arg9 : tensor<16xf32>
    %10 = stablehlo.add %7, %9 : tensor<16xf32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %12 = stablehlo.multiply %11, %arg18 : tensor<16x16xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %14 = stablehlo.multiply %13, %arg10 : tensor<16x16xf32>
    %15 = stablehlo.add %12, %14 : tensor<16x16xf32>
    %cst_6 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %17 = stablehlo.multiply %16, %arg19 : tensor<16xf32>
    %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %19 = stablehlo.multiply %18, %arg11 : tensor<16xf32>
    %20 = stablehlo.add %17, %19 : tensor<16xf32>
    %cst_8 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %22 = stablehlo.multiply %21, %arg20 : tensor<16x16xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %24 = stablehlo.multiply %23, %arg12 : tensor<16x16xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x16xf32>
    %cst_10 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %27 = stablehlo.multiply %26, %arg21 : tensor<16xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %29 = stablehlo.multiply %28, %arg13 : tensor<16xf32>
    %30 = stablehlo.add %27, %29 : tensor<16xf32>
    %cst_12 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %32 = stablehlo.multiply %31, %arg22 : tensor<16x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %34 = stablehlo.multiply %33, %arg14 : tensor<16x1xf32>
    %35 = stablehlo.add %32, %34 : tensor<16x1xf32>
    %cst_14 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %37 = stablehlo.multiply %36, %arg23 : tensor<1xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %39 = stablehlo.multiply %38, %arg15 : tensor<1xf32>
    %40 = stablehlo.add %37, %39 : tensor<1xf32>
    %cst_16 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %42 = stablehlo.multiply %41, %arg24 : tensor<1x16xf32>
    %cst_17 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %44 = stablehlo.multiply %43, %arg8 : tensor<1x16xf32>
    %45 = stablehlo.multiply %44, %arg8 : tensor<1x16xf32>
    %46 = stablehlo.add %42, %45 : tensor<1x16xf32>
    %cst_18 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %48 = stablehlo.multiply %47, %arg25 : tensor<16xf32>
    %cst_19 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %50 = stablehlo.multiply %49, %arg9 : tensor<16xf32>
    %51 = stablehlo.multiply %50, %arg9 : tensor<16xf32>
    %52 = stablehlo.add %48, %51 : tensor<16xf32>
    %cst_20 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %54 = stablehlo.multiply %53, %arg26 : tensor<16x16xf32>
    %cst_21 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %56 = stablehlo.multiply %55, %arg10 : tensor<16x16xf32>
    %57 = stablehlo.multiply %56, %arg10 : tensor<16x16xf32>
    %58 = stablehlo.add %54, %57 : tensor<16x16xf32>
    %cst_22 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %60 = stablehlo.multiply %59, %arg27 : tensor<16xf32>
    %cst_23 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %62 = stablehlo.multiply %61, %arg11 : tensor<16xf32>
    %63 = stablehlo.multiply %62, %arg11 : tensor<16xf32>
    %64 = stablehlo.add %60, %63 : tensor<16xf32>
    %cst_24 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %66 = stablehlo.multiply %65, %arg28 : tensor<16x16xf32>
    %cst_25 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %68 = stablehlo.multiply %67, %arg12 : tensor<16x16xf32>
    %69 = stablehlo.multiply %68, %arg12 : tensor<16x16xf32>
    %70 = stablehlo.add %66, %69 : tensor<16x16xf32>
    %cst_26 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %72 = stablehlo.multiply %71, %arg29 : tensor<16xf32>
    %cst_27 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %74 = stablehlo.multiply %73, %arg13 : tensor<16xf32>
    %75 = stablehlo.multiply %74, %arg13 : tensor<16xf32>
    %76 = stablehlo.add %72, %75 : tensor<16xf32>
    %cst_28 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %78 = stablehlo.multiply %77, %arg30 : tensor<16x1xf32>
    %cst_29 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %80 = stablehlo.multiply %79, %arg14 : tensor<16x1xf32>
    %81 = stablehlo.multiply %80, %arg14 : tensor<16x1xf32>
    %82 = stablehlo.add %78, %81 : tensor<16x1xf32>
    %cst_30 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %84 = stablehlo.multiply %83, %arg31 : tensor<1xf32>
    %cst_31 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %86 = stablehlo.multiply %85, %arg15 : tensor<1xf32>
    %87 = stablehlo.multiply %86, %arg15 : tensor<1xf32>
    %88 = stablehlo.add %84, %87 : tensor<1xf32>
    %cst_32 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %89 = stablehlo.power %cst_32, %0 : tensor<f32>
    %cst_33 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %90 = stablehlo.subtract %cst_33, %89 : tensor<f32>
    %cst_34 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %91 = stablehlo.divide %cst_34, %90 : tensor<f32>
    %cst_35 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %92 = stablehlo.power %cst_35, %0 : tensor<f32>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %93 = stablehlo.subtract %cst_36, %92 : tensor<f32>
    %cst_37 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %94 = stablehlo.divide %cst_37, %93 : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %96 = stablehlo.multiply %95, %5 : tensor<1x16xf32>
    %97 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %98 = stablehlo.multiply %46, %97 : tensor<1x16xf32>
    %99 = stablehlo.sqrt %98 : tensor<1x16xf32>
    %cst_38 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %101 = stablehlo.add %99, %100 : tensor<1x16xf32>
    %102 = stablehlo.divide %96, %101 : tensor<1x16xf32>
    %103 = stablehlo.subtract %arg0, %102 : tensor<1x16xf32>
    %104 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %105 = stablehlo.multiply %104, %10 : tensor<16xf32>
    %106 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %107 = stablehlo.multiply %52, %106 : tensor<16xf32>
    %108 = stablehlo.sqrt %107 : tensor<16xf32>
    %cst_39 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %110 = stablehlo.add %108, %109 : tensor<16xf32>
    %111 = stablehlo.divide %105, %110 : tensor<16xf32>
    %112 = stablehlo.subtract %arg1, %111 : tensor<16xf32>
    %113 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %114 = stablehlo.multiply %113, %15 : tensor<16x16xf32>
    %115 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %116 = stablehlo.multiply %58, %115 : tensor<16x16xf32>
    %117 = stablehlo.sqrt %116 : tensor<16x16xf32>
    %cst_40 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %119 = stablehlo.add %117, %118 : tensor<16x16xf32>
    %120 = stablehlo.divide %114, %119 : tensor<16x16xf32>
    %121 = stablehlo.subtract %arg2, %120 : tensor<16x16xf32>
    %122 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %123 = stablehlo.multiply %122, %20 : tensor<16xf32>
    %124 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %125 = stablehlo.multiply %64, %124 : tensor<16xf32>
    %126 = stablehlo.sqrt %125 : tensor<16xf32>
    %cst_41 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %127 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %128 = stablehlo.add %126, %127 : tensor<16xf32>
    %129 = stablehlo.divide %123, %128 : tensor<16xf32>
    %130 = stablehlo.subtract %arg3, %129 : tensor<16xf32>
    %131 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %132 = stablehlo.multiply %131, %25 : tensor<16x16xf32>
    %133 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %134 = stablehlo.multiply %70, %133 : tensor<16x16xf32>
    %135 = stablehlo.sqrt %134 : tensor<16x16xf32>
    %cst_42 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %137 = stablehlo.add %135, %136 : tensor<16x16xf32>
    %138 = stablehlo.divide %132, %137 : tensor<16x16xf32>
    %139 = stablehlo.subtract %arg4, %138 : tensor<16x16xf32>
    %140 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %141 = stablehlo.multiply %140, %30 : tensor<16xf32>
    %142 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %143 = stablehlo.multiply %76, %142 : tensor<16xf32>
    %144 = stablehlo.sqrt %143 : tensor<16xf32>
    %cst_43 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %146 = stablehlo.add %144, %145 : tensor<16xf32>
    %147 = stablehlo.divide %141, %146 : tensor<16xf32>
    %148 = stablehlo.subtract %arg5, %147 : tensor<16xf32>
    %149 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %150 = stablehlo.multiply %149, %35 : tensor<16x1xf32>
    %151 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %152 = stablehlo.multiply %82, %151 : tensor<16x1xf32>
    %153 = stablehlo.sqrt %152 : tensor<16x1xf32>
    %cst_44 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %155 = stablehlo.add %153, %154 : tensor<16x1xf32>
    %156 = stablehlo.divide %150, %155 : tensor<16x1xf32>
    %157 = stablehlo.subtract %arg6, %156 : tensor<16x1xf32>
    %158 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %159 = stablehlo.multiply %158, %40 : tensor<1xf32>
    %160 = stablehlo.broadcast_in_dim %94, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %161 = stablehlo.multiply %88, %160 : tensor<1xf32>
    %162 = stablehlo.sqrt %161 : tensor<1xf32>
    %cst_45 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %163 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %164 = stablehlo.add %162, %163 : tensor<1xf32>
    %165 = stablehlo.divide %159, %164 : tensor<1xf32>
    %166 = stablehlo.subtract %arg7, %165 : tensor<1xf32>
    return %103, %112, %121, %130, %139, %148, %157, %166, %5, %10, %15, %20, %25, %30, %35, %40, %46, %52, %58, %64, %70, %76, %82, %88, %0 : tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<f32>
  }
}
