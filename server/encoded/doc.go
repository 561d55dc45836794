// Package encoded passes messages between gRPC and handlers as bytes, so that a handler can read
// requests and write answers without protobuf messages. It counts answers until gRPC has sent
// them.
package encoded
