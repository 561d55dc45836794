// Package hpa brings HorizontalPodAutoscalers to the engine and back, for programs that embed
// it: it reads files, converts between autoscaling/v2 and the engine's types, and validates.
//
//	autoscaler, err := hpa.ReadOne("hpa.yaml", file)
//	…
//	read, err := autoscaler.Engine(nil) // validated, with the API's defaults
//	…
//	result, err := simulation.Run(scenario, read, nil)
//
// An object of client-go goes the same way: &hpa.Autoscaler{Object: object}. [Autoscaler.Input] makes
// the input of a decision, with the stages around it, from a cluster's objects, [Status] the object's
// new status from the decision, [Spec] a spec of autoscaling/v2 from the engine's. [Validate] checks a
// spec of the engine that the program filled in itself.
//
// The rules and words of violations are those of the API server, as the service has them.
// Nothing here reads the clock, a cluster or the network.
package hpa
