module github.com/setpoint-dev/setpoint/tools/pack

go 1.26.0

require github.com/andybalholm/brotli v1.2.3
