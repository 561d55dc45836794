// Package crd compares the CustomResourceDefinition of the Autoscaler with the API
// server's own code for a HorizontalPodAutoscaler: what is accepted, what is filled in,
// and what `kubectl get` shows. Both sides run the API server's code, on one side that
// for custom resources, on the other that for autoscaling/v2.
package crd
