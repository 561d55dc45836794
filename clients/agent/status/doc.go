// Package status says what an agent does with each object: its count, what decided it, when it was
// last scaled, and why it is held.
//
//	book, err := status.Open("/var/lib/setpoint-agent", "demo", log)
//	driver, err := agent.NewDriver(book.Note(platform), service, options, agent.DriverOptions{})
//	go book.Keep(ctx) // writes the file, so that the next agent knows it, too
//	objects, problem := book.Objects()
//
// A [Status] writes them for people. An [Identity] waits for the cluster's id.
package status
