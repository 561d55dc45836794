// Package logging writes the log of Kubernetes' libraries to the agent's log, at levels that
// suit an agent: package transport logs once that the API server does not answer.
package logging
