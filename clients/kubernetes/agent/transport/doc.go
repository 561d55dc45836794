// Package transport watches the requests of an agent to its API server: it counts them, notices
// when the server does not answer, and waits for it at the start.
package transport
