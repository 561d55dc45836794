// Package admission decides which calls are let in: it finds out who calls, applies limits
// while headers and bodies are read, and bounds connections, messages that do not arrive
// completely and answers that nobody reads. It does so for gRPC and for REST.
package admission
