// Package crd compares the CustomResourceDefinition of the Autoscaler with the API
// server's own code for a HorizontalPodAutoscaler: which objects are accepted, the
// defaults, and the output of `kubectl get`. Both sides run the API server's code, one
// for custom resources, the other for autoscaling/v2.
package crd
