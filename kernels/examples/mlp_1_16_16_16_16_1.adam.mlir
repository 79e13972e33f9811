module @jit_adam attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16x1xf32>, %arg9: tensor<1xf32>, %arg10: tensor<1x16xf32>, %arg11: tensor<16xf32>, %arg12: tensor<16x16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x16xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16x16xf32>, %arg17: tensor<16xf32>, %arg18: tensor<16x1xf32>, %arg19: tensor<1xf32>, %arg20: tensor<1x16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<16x16xf32>, %arg23: tensor<16xf32>, %arg24: tensor<16x16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16x16xf32>, %arg27: tensor<16xf32>, %arg28: tensor<16x1xf32>, %arg29: tensor<1xf32>, %arg30: tensor<1x16xf32>, %arg31: tensor<16xf32>, %arg32: tensor<16x16xf32>, %arg33: tensor<16xf32>, %arg34: tensor<16x16xf32>, %arg35: tensor<16xf32>, %arg36: tensor<16x16xf32>, %arg37: tensor<16xf32>, %arg38: tensor<16x1xf32>, %arg39: tensor<1xf32>, %arg40: tensor<f32>) -> (tensor<1x16xf32> {jax.result_info = "result[0][0]"}, tensor<16xf32> {jax.result_info = "result[0][1]"}, tensor<16x16xf32> {jax.result_info = "result[0][2]"}, tensor<16xf32> {jax.result_info = "result[0][3]"}, tensor<16x16xf32> {jax.result_info = "result[0][4]"}, tensor<16xf32> {jax.result_info = "result[0][5]"}, tensor<16x16xf32> {jax.result_info = "result[0][6]"}, tensor<16xf32> {jax.result_info = "result[0][7]"}, tensor<16x1xf32> {jax.result_info = "result[0][8]"}, tensor<1xf32> {jax.result_info = "result[0][9]"}, tensor<1x16xf32> {jax.result_info = "result[1][0]"}, tensor<16xf32> {jax.result_info = "result[1][1]"}, tensor<16x16xf32> {jax.result_info = "result[1][2]"}, tensor<16xf32> {jax.result_info = "result[1][3]"}, tensor<16x16xf32> {jax.result_info = "result[1][4]"}, tensor<16xf32> {jax.result_info = "result[1][5]"}, tensor<16x16xf32> {jax.result_info = "result[1][6]"}, tensor<16xf32> {jax.result_info = "result[1][7]"}, tensor<16x1xf32> {jax.result_info = "result[1][8]"}, tensor<1xf32> {jax.result_info = "result[1][9]"}, tensor<1x16xf32> {jax.result_info = "result[2][0]"}, tensor<16xf32> {jax.result_info = "result[2][1]"}, tensor<16x16xf32> {jax.result_info = "result[2][2]"}, tensor<16xf32> {jax.result_info = "result[2][3]"}, tensor<16x16xf32> {jax.result_info = "result[2][4]"}, tensor<16xf32> {jax.result_info = "result[2][5]"}, tensor<16x16xf32> {jax.result_info = "result[2][6]"}, tensor<16xf32> {jax.result_info = "result[2][7]"}, tensor<16x1xf32> {jax.result_info = "result[2][8]"}, tensor<1xf32> {jax.result_info = "result[2][9]"}, tensor<f32> {jax.result_info = "result[3]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.add %arg40, %cst : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %2 = stablehlo.multiply %1, %arg20 : tensor<1x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %4 = stablehlo.multiply %3, %arg10 : tensor<1x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<1x16xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %7 = stablehlo.multiply %6, %arg21 : tensor<16xf32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %9 = stablehlo.multiply %8, %arg11 : tensor<16xf32>
    %10 = stablehlo.add %7, %9 : tensor<16xf32>
    %cst_4 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %12 = stablehlo.multiply %11, %arg22 : tensor<16x16xf32>
    %cst_5 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %14 = stablehlo.multiply %13, %arg12 : tensor<16x16xf32>
    %15 = stablehlo.add %12, %14 : tensor<16x16xf32>
    %cst_6 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %17 = stablehlo.multiply %16, %arg23 : tensor<16xf32>
    %cst_7 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %19 = stablehlo.multiply %18, %arg13 : tensor<16xf32>
    %20 = stablehlo.add %17, %19 : tensor<16xf32>
    %cst_8 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %22 = stablehlo.multiply %21, %arg24 : tensor<16x16xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %24 = stablehlo.multiply %23, %arg14 : tensor<16x16xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x16xf32>
    %cst_10 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %27 = stablehlo.multiply %26, %arg25 : tensor<16xf32>
    %cst_11 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %29 = stablehlo.multiply %28, %arg15 : tensor<16xf32>
    %30 = stablehlo.add %27, %29 : tensor<16xf32>
    %cst_12 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %32 = stablehlo.multiply %31, %arg26 : tensor<16x16xf32>
    %cst_13 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %34 = stablehlo.multiply %33, %arg16 : tensor<16x16xf32>
    %35 = stablehlo.add %32, %34 : tensor<16x16xf32>
    %cst_14 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %37 = stablehlo.multiply %36, %arg27 : tensor<16xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %39 = stablehlo.multiply %38, %arg17 : tensor<16xf32>
    %40 = stablehlo.add %37, %39 : tensor<16xf32>
    %cst_16 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %42 = stablehlo.multiply %41, %arg28 : tensor<16x1xf32>
    %cst_17 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %44 = stablehlo.multiply %43, %arg18 : tensor<16x1xf32>
    %45 = stablehlo.add %42, %44 : tensor<16x1xf32>
    %cst_18 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %47 = stablehlo.multiply %46, %arg29 : tensor<1xf32>
    %cst_19 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %49 = stablehlo.multiply %48, %arg19 : tensor<1xf32>
    %50 = stablehlo.add %47, %49 : tensor<1xf32>
    %cst_20 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %52 = stablehlo.multiply %51, %arg30 : tensor<1x16xf32>
    %cst_21 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %54 = stablehlo.multiply %53, %arg10 : tensor<1x16xf32>
    %55 = stablehlo.multiply %54, %arg10 : tensor<1x16xf32>
    %56 = stablehlo.add %52, %55 : tensor<1x16xf32>
    %cst_22 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %58 = stablehlo.multiply %57, %arg31 : tensor<16xf32>
    %cst_23 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %60 = stablehlo.multiply %59, %arg11 : tensor<16xf32>
    %61 = stablehlo.multiply %60, %arg11 : tensor<16xf32>
    %62 = stablehlo.add %58, %61 : tensor<16xf32>
    %cst_24 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %64 = stablehlo.multiply %63, %arg32 : tensor<16x16xf32>
    %cst_25 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %66 = stablehlo.multiply %65, %arg12 : tensor<16x16xf32>
    %67 = stablehlo.multiply %66, %arg12 : tensor<16x16xf32>
    %68 = stablehlo.add %64, %67 : tensor<16x16xf32>
    %cst_26 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %70 = stablehlo.multiply %69, %arg33 : tensor<16xf32>
    %cst_27 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %72 = stablehlo.multiply %71, %arg13 : tensor<16xf32>
    %73 = stablehlo.multiply %72, %arg13 : tensor<16xf32>
    %74 = stablehlo.add %70, %73 : tensor<16xf32>
    %cst_28 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %76 = stablehlo.multiply %75, %arg34 : tensor<16x16xf32>
    %cst_29 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %78 = stablehlo.multiply %77, %arg14 : tensor<16x16xf32>
    %79 = stablehlo.multiply %78, %arg14 : tensor<16x16xf32>
    %80 = stablehlo.add %76, %79 : tensor<16x16xf32>
    %cst_30 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %82 = stablehlo.multiply %81, %arg35 : tensor<16xf32>
    %cst_31 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %84 = stablehlo.multiply %83, %arg15 : tensor<16xf32>
    %85 = stablehlo.multiply %84, %arg15 : tensor<16xf32>
    %86 = stablehlo.add %82, %85 : tensor<16xf32>
    %cst_32 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %88 = stablehlo.multiply %87, %arg36 : tensor<16x16xf32>
    %cst_33 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %90 = stablehlo.multiply %89, %arg16 : tensor<16x16xf32>
    %91 = stablehlo.multiply %90, %arg16 : tensor<16x16xf32>
    %92 = stablehlo.add %88, %91 : tensor<16x16xf32>
    %cst_34 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %94 = stablehlo.multiply %93, %arg37 : tensor<16xf32>
    %cst_35 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %96 = stablehlo.multiply %95, %arg17 : tensor<16xf32>
    %97 = stablehlo.multiply %96, %arg17 : tensor<16xf32>
    %98 = stablehlo.add %94, %97 : tensor<16xf32>
    %cst_36 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %100 = stablehlo.multiply %99, %arg38 : tensor<16x1xf32>
    %cst_37 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %102 = stablehlo.multiply %101, %arg18 : tensor<16x1xf32>
    %103 = stablehlo.multiply %102, %arg18 : tensor<16x1xf32>
    %104 = stablehlo.add %100, %103 : tensor<16x1xf32>
    %cst_38 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %106 = stablehlo.multiply %105, %arg39 : tensor<1xf32>
    %cst_39 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %108 = stablehlo.multiply %107, %arg19 : tensor<1xf32>
    %109 = stablehlo.multiply %108, %arg19 : tensor<1xf32>
    %110 = stablehlo.add %106, %109 : tensor<1xf32>
    %cst_40 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %111 = stablehlo.power %cst_40, %0 : tensor<f32>
    %cst_41 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %112 = stablehlo.subtract %cst_41, %111 : tensor<f32>
    %cst_42 = stablehlo.constant dense<3.000000e-02> : tensor<f32>
    %113 = stablehlo.divide %cst_42, %112 : tensor<f32>
    %cst_43 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %114 = stablehlo.power %cst_43, %0 : tensor<f32>
    %cst_44 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %115 = stablehlo.subtract %cst_44, %114 : tensor<f32>
    %cst_45 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %116 = stablehlo.divide %cst_45, %115 : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %118 = stablehlo.multiply %117, %5 : tensor<1x16xf32>
    %119 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %120 = stablehlo.multiply %56, %119 : tensor<1x16xf32>
    %121 = stablehlo.sqrt %120 : tensor<1x16xf32>
    %cst_46 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<1x16xf32>
    %123 = stablehlo.add %121, %122 : tensor<1x16xf32>
    %124 = stablehlo.divide %118, %123 : tensor<1x16xf32>
    %125 = stablehlo.subtract %arg0, %124 : tensor<1x16xf32>
    %126 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %127 = stablehlo.multiply %126, %10 : tensor<16xf32>
    %128 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %129 = stablehlo.multiply %62, %128 : tensor<16xf32>
    %130 = stablehlo.sqrt %129 : tensor<16xf32>
    %cst_47 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %132 = stablehlo.add %130, %131 : tensor<16xf32>
    %133 = stablehlo.divide %127, %132 : tensor<16xf32>
    %134 = stablehlo.subtract %arg1, %133 : tensor<16xf32>
    %135 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %136 = stablehlo.multiply %135, %15 : tensor<16x16xf32>
    %137 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %138 = stablehlo.multiply %68, %137 : tensor<16x16xf32>
    %139 = stablehlo.sqrt %138 : tensor<16x16xf32>
    %cst_48 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %141 = stablehlo.add %139, %140 : tensor<16x16xf32>
    %142 = stablehlo.divide %136, %141 : tensor<16x16xf32>
    %143 = stablehlo.subtract %arg2, %142 : tensor<16x16xf32>
    %144 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %145 = stablehlo.multiply %144, %20 : tensor<16xf32>
    %146 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %147 = stablehlo.multiply %74, %146 : tensor<16xf32>
    %148 = stablehlo.sqrt %147 : tensor<16xf32>
    %cst_49 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %149 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %150 = stablehlo.add %148, %149 : tensor<16xf32>
    %151 = stablehlo.divide %145, %150 : tensor<16xf32>
    %152 = stablehlo.subtract %arg3, %151 : tensor<16xf32>
    %153 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %154 = stablehlo.multiply %153, %25 : tensor<16x16xf32>
    %155 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %156 = stablehlo.multiply %80, %155 : tensor<16x16xf32>
    %157 = stablehlo.sqrt %156 : tensor<16x16xf32>
    %cst_50 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %159 = stablehlo.add %157, %158 : tensor<16x16xf32>
    %160 = stablehlo.divide %154, %159 : tensor<16x16xf32>
    %161 = stablehlo.subtract %arg4, %160 : tensor<16x16xf32>
    %162 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %163 = stablehlo.multiply %162, %30 : tensor<16xf32>
    %164 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %165 = stablehlo.multiply %86, %164 : tensor<16xf32>
    %166 = stablehlo.sqrt %165 : tensor<16xf32>
    %cst_51 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %168 = stablehlo.add %166, %167 : tensor<16xf32>
    %169 = stablehlo.divide %163, %168 : tensor<16xf32>
    %170 = stablehlo.subtract %arg5, %169 : tensor<16xf32>
    %171 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %172 = stablehlo.multiply %171, %35 : tensor<16x16xf32>
    %173 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %174 = stablehlo.multiply %92, %173 : tensor<16x16xf32>
    %175 = stablehlo.sqrt %174 : tensor<16x16xf32>
    %cst_52 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %177 = stablehlo.add %175, %176 : tensor<16x16xf32>
    %178 = stablehlo.divide %172, %177 : tensor<16x16xf32>
    %179 = stablehlo.subtract %arg6, %178 : tensor<16x16xf32>
    %180 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %181 = stablehlo.multiply %180, %40 : tensor<16xf32>
    %182 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %183 = stablehlo.multiply %98, %182 : tensor<16xf32>
    %184 = stablehlo.sqrt %183 : tensor<16xf32>
    %cst_53 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %185 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %186 = stablehlo.add %184, %185 : tensor<16xf32>
    %187 = stablehlo.divide %181, %186 : tensor<16xf32>
    %188 = stablehlo.subtract %arg7, %187 : tensor<16xf32>
    %189 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %190 = stablehlo.multiply %189, %45 : tensor<16x1xf32>
    %191 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %192 = stablehlo.multiply %104, %191 : tensor<16x1xf32>
    %193 = stablehlo.sqrt %192 : tensor<16x1xf32>
    %cst_54 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %194 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<16x1xf32>
    %195 = stablehlo.add %193, %194 : tensor<16x1xf32>
    %196 = stablehlo.divide %190, %195 : tensor<16x1xf32>
    %197 = stablehlo.subtract %arg8, %196 : tensor<16x1xf32>
    %198 = stablehlo.broadcast_in_dim %113, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %199 = stablehlo.multiply %198, %50 : tensor<1xf32>
    %200 = stablehlo.broadcast_in_dim %116, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %201 = stablehlo.multiply %110, %200 : tensor<1xf32>
    %202 = stablehlo.sqrt %201 : tensor<1xf32>
    %cst_55 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %203 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %204 = stablehlo.add %202, %203 : tensor<1xf32>
    %205 = stablehlo.divide %199, %204 : tensor<1xf32>
    %206 = stablehlo.subtract %arg9, %205 : tensor<1xf32>
    return %125, %134, %143, %152, %161, %170, %179, %188, %197, %206, %5, %10, %15, %20, %25, %30, %35, %40, %45, %50, %56, %62, %68, %74, %80, %86, %92, %98, %104, %110, %0 : tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<1x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16x1xf32>, tensor<1xf32>, tensor<f32>
  }
}
