module github.com/setpoint-dev/setpoint/tools/esbuild

go 1.26

tool github.com/evanw/esbuild/cmd/esbuild

require (
	github.com/andybalholm/brotli v1.2.3
	github.com/evanw/esbuild v0.28.2
)

require golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect
