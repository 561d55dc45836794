// Package kubernetes tests setpoint agent kubernetes as users run it, as a process
// beside setpoint serve, against the real API server and, side by side, the real
// controller of HorizontalPodAutoscalers.
package kubernetes
