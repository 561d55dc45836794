// Package validation tells what is wrong with a request, all of it at once, by
// JSON field path.
//
// Spec checks an autoscaler's spec by the rules, in the order and in the words
// of the Kubernetes 1.36 API server. Structure checks the rules that the .proto
// files state beside their fields, for any message. A request is sound when
// neither finds anything:
//
//	violations := append(validation.Structure(req), validation.Spec(req.GetSpec(), opts)...)
//
// Both only look: they change no message, and what they return does not refer
// to one. They know nothing of the relations between the parts of a request
// (unique pod names, metrics that errors refer to), nor of the server's limits.
package validation
