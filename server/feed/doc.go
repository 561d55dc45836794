// Package feed distributes decisions from the store's feed to the watchers on this
// instance, however many there are: one reader polls the store a few times per second, and
// each watcher takes decisions from its results at its own pace.
//
//	hub := feed.New(engine, feed.Options{})
//	defer hub.Close()
//	w, err := hub.Watch(ctx, feed.Filter{Cluster: "demo"}, from, sees)
//	…
//	defer w.Close()
//	for {
//		event, ok, err := w.Take(ctx, 64)
//		if !ok { wait for w.Ready() }
//	}
//
// A slow watcher delays no other: its queue is limited, and its events count the decisions
// it missed. Without watchers nothing is read.
package feed
