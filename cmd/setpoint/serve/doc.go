// Package serve is `setpoint serve`: the service as a process, with its settings, the
// edge that lets callers in (TLS, tokens, policy, limits), the store it keeps histories
// in, its admin address, and the command that asks that address.
package serve
