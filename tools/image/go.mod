module github.com/setpoint-dev/setpoint/tools/image

go 1.26.0
