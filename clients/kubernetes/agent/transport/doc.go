// Package transport observes an agent's requests to its API server: it counts them, detects an
// outage, and waits for the server at the start.
package transport
