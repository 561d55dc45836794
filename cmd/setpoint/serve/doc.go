// Package serve is `setpoint serve`: the service as a process, with its settings, its edge
// (TLS, tokens, policy, limits), the store of histories, its admin address, and the command
// that queries that address.
package serve
