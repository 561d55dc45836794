// Package admission decides which calls to admit, over gRPC and REST: it authenticates callers,
// applies limits while headers and bodies are read, and limits connections, incomplete messages
// and unread responses.
package admission
