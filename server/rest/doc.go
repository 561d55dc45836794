// Package rest serves the contract's calls, and other systems' contracts, as JSON over HTTP. Most
// recommendations are transcoded directly to encoded messages (fastpath.go); everything else goes
// through grpc-gateway, whose connection calls the services in this process (inside.go).
package rest
