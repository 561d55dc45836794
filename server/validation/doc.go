// Package validation finds everything that is wrong with a request, by JSON field path.
//
// Spec checks an autoscaler's spec by the rules, in the order and in the words of the
// Kubernetes 1.36 API server. Structure checks the rules that the .proto files state beside
// their fields, for any message. A request is valid if neither finds anything:
//
//	violations := append(validation.Structure(req), validation.Spec(req.GetSpec(), opts)...)
//
// Neither changes a message, and their results do not refer to one. They do not check
// relations between the parts of a request (unique pod names, metrics that errors refer to),
// or the server's limits.
package validation
