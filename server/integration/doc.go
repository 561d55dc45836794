// Package integration implements the HTTP contracts of other autoscalers that call a
// recommender: Datadog's, Agones' and the General Pod Autoscaler's. Each reads a caller's body
// as a poll of a stored target, and formats the recommendation, or the error, as that caller
// expects it:
//
//	contract := integration.Contracts["agones"]
//	question, violations := contract.Read("prod", body)
//	// … get the recommendation of question.Key
//	answer := contract.Answer(question, recommendation)
//
// The cluster comes from the address that the operator configured, the namespace and the name
// from the caller's controller, which takes them from its own objects. So authors of such
// objects can't choose another namespace.
//
// The package is independent of the transport and of authentication.
package integration
