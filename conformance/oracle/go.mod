module github.com/setpoint-dev/setpoint/conformance/oracle

go 1.26.0
