// Package controller drives the real HorizontalController of Kubernetes v1.15, and of
// v1.19: the module in ../../v1.19 compiles it with that version's code. Both read and
// write HPAs of autoscaling/v1, which stores further fields as annotations, and convert
// those.
package controller
