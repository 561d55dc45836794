// Package karmada proves how fleets are shared out by the function that does so in Karmada, which its
// scheduler and its FederatedHPA use.
package karmada
