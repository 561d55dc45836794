// Command protodeps writes the .proto files that Setpoint's contract imports
// (google/api, buf/validate) below a directory, printed from the descriptors that the
// pinned Go modules carry. So the contract can be linted, generated and used without
// the Buf Schema Registry.
//
// Usage: protodeps DIRECTORY
package main

import (
	"fmt"
	"os"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protoreflect"

	validate "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protodeps DIRECTORY")
		os.Exit(2)
	}
	files := []protoreflect.FileDescriptor{
		annotations.File_google_api_annotations_proto,
		annotations.File_google_api_field_behavior_proto,
		annotations.File_google_api_http_proto,
		errdetails.File_google_rpc_error_details_proto,
		status.File_google_rpc_status_proto,
		validate.File_buf_validate_validate_proto,
	}
	printer := protoprint.Printer{Compact: true}
	if err := printer.PrintProtosToFileSystem(files, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protodeps:", err)
		os.Exit(1)
	}
}
