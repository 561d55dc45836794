// Package lint finds what is likely to surprise in the specs of autoscalers, with the
// arithmetic in the user's own numbers. What a finding says of the engine's behaviour is tried
// with the engine: some rules do so for each spec, the tests for all of them.
package lint
