// Package feed brings decisions from the store's feed to those who watch it on this
// instance, however many they are: one reader asks the store some times a second, and each
// watcher takes from what it read at a pace of its own.
//
//	hub := feed.New(engine, feed.Options{})
//	defer hub.Close()
//	w, err := hub.Watch(ctx, feed.Filter{Cluster: "demo"}, from, sees)
//	…
//	defer w.Close()
//	for {
//		event, ok, err := w.Take(ctx)
//		if !ok { wait for w.Ready() }
//	}
//
// Nobody waits for a slow watcher: what waits for it is bounded, and it is told how many
// decisions it missed. Without watchers nothing is read.
package feed
