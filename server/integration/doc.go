// Package integration has the HTTP contracts of other autoscalers that ask a recommender for
// a count: Datadog's, Agones' and the General Pod Autoscaler's. Each reads a caller's body as
// a poll of a stored target, and words the recommendation, or the error, as that caller
// expects it:
//
//	contract := integration.Contracts["agones"]
//	question, violations := contract.Read("prod", body)
//	// … ask for the recommendation of question.Key
//	answer := contract.Answer(question, recommendation)
//
// The cluster comes from the operator's address, and the namespace and the name from the
// caller's controller, which takes them from its own objects. What the author of such an object
// writes chooses no other namespace.
//
// The package is independent of the transport and of authentication.
package integration
