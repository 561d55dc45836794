// KEDA's version. scripts/keda.sh builds the operator and the metrics adapter of its module.
module github.com/setpoint-dev/setpoint/tools/keda

go 1.26.0

require github.com/kedacore/keda/v2 v2.21.0
