// Package playground answers the page's playground: it simulates specs in a scenario, checks
// them, explains a step, and exports them. Questions and answers are JSON, so that the same code
// answers in a browser, compiled to WebAssembly (folder wasm), and in tests:
//
//	answer := playground.Answer([]byte(`{"ask": "simulate", "scenario": "…", "specs": [{"name": "A", "text": "…"}]}`))
//
// Specs are read with the service's rules and defaults, decided by its engine, and explained in
// the words of setpoint explain. There is no clock, no file and no network.
package playground
