module github.com/setpoint-dev/setpoint/tools/vtprotobuf

go 1.26

tool github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto

require (
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	google.golang.org/protobuf v1.31.0 // indirect
)
