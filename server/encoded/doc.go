// Package encoded passes messages between gRPC and handlers as bytes, so that a handler can read
// requests and write responses without protobuf messages. It counts responses until gRPC has
// sent them.
package encoded
