// Package admission decides which calls to admit, over gRPC and REST: it authenticates callers,
// applies limits while headers and bodies are read, and bounds connections, incomplete messages
// and unread answers.
package admission
