// Package logging writes the lines of Kubernetes' libraries to the agent's log, at levels that suit
// an agent: an API server that does not answer is logged once, by package transport.
package logging
