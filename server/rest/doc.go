// Package rest serves the contract's calls, and other systems' contracts, as JSON over HTTP. Usual
// recommendations become encoded messages at once (short.go); everything else goes over
// grpc-gateway, whose connection leads to the services in this process (inside.go).
package rest
