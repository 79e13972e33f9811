module @reactant_sines attributes {mhlo.num_partitions = 1 : i64, mhlo.num_replicas = 1 : i64} {
  func.func private @"step!{Float32}"(%arg0: tensor<i64>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<i64>) {
    %cst = stablehlo.constant dense<3.125000e-02> : tensor<3xf32>
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %1 = stablehlo.convert %0 : (tensor<3xi64>) -> tensor<3xf32>
    %2 = stablehlo.multiply %1, %cst : tensor<3xf32>
    %3 = stablehlo.multiply %2, %arg1 : tensor<3xf32>
    %4 = stablehlo.sine %arg1 : tensor<3xf32>
    %5 = stablehlo.add %4, %3 : tensor<3xf32>
    return %5, %arg0 : tensor<3xf32>, tensor<i64>
  }
  func.func @main(%arg0: tensor<3xf32> {enzymexla.memory_effects = []}) -> (tensor<f32>, tensor<3xf32>, tensor<i64>) attributes {enzymexla.memory_effects = []} {
    %0 = stablehlo.transpose %arg0, dims = [0] : (tensor<3xf32>) -> tensor<3xf32>
    %c = stablehlo.constant dense<3> : tensor<i64>
    %c_0 = stablehlo.constant dense<16> : tensor<i64>
    %c_1 = stablehlo.constant dense<4> : tensor<i64>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %1:6 = stablehlo.while(%iterArg = %c_2, %iterArg_3 = %c_1, %iterArg_4 = %c_0, %iterArg_5 = %c, %iterArg_6 = %0, %iterArg_7 = %c_2) : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<3xf32>, tensor<i64> attributes {enzyme.binomial_checkpointing, enzyme.checkpoint_period = 3 : i64, enzyme.disable_mincut, enzyme.enable_checkpointing = true}
    cond {
      %4 = stablehlo.subtract %iterArg_4, %iterArg_5 : tensor<i64>
      %5 = stablehlo.divide %4, %iterArg_3 : tensor<i64>
      %c_8 = stablehlo.constant dense<1> : tensor<i64>
      %6 = stablehlo.add %5, %c_8 : tensor<i64>
      %7 = stablehlo.compare  LT, %iterArg, %6 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %4 = stablehlo.multiply %iterArg, %iterArg_3 : tensor<i64>
      %5 = stablehlo.add %iterArg_5, %4 : tensor<i64>
      %c_8 = stablehlo.constant dense<1> : tensor<i64>
      %6 = stablehlo.add %iterArg, %c_8 : tensor<i64>
      %7:2 = func.call @"step!{Float32}"(%5, %iterArg_6) : (tensor<i64>, tensor<3xf32>) -> (tensor<3xf32>, tensor<i64>)
      %8 = stablehlo.add %iterArg_7, %7#1 : tensor<i64>
      stablehlo.return %6, %iterArg_3, %iterArg_4, %iterArg_5, %7#0, %8 : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<3xf32>, tensor<i64>
    }
    %2 = stablehlo.transpose %1#4, dims = [0] : (tensor<3xf32>) -> tensor<3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    return %3, %2, %1#5 : tensor<f32>, tensor<3xf32>, tensor<i64>
  }
}
