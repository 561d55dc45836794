// Package webhook is the agents' platform for whatever has no adapter of its own: an in-house
// scheduler that answers three HTTP calls with the service's JSON.
//
//	GET  {url}/targets   what is to be scaled, and how: pages of Target
//	POST {url}/observe   what a decision on one target goes by: Observation
//	POST {url}/apply     the count that was decided: Application
//
// openapi.yaml describes them, and docs/guides/webhook.md explains them. Requests and answers are
// signed with HMAC-SHA-256 by a key that both sides have, so that neither who finds the
// scheduler's port nor a proxy between both decides about counts:
//
//	client, err := webhook.Connect(webhook.Server{URL: "https://scheduler:8443/setpoint", KeyFile: "keys"})
//	platform := webhook.New(client, webhook.Options{})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// What a server sends is bounded in bytes, pages, targets, pods and samples. A target that
// can't be read is held, and says why; the others are scaled.
package webhook
