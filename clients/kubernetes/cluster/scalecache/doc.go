// Package scalecache caches scales. It watches their objects and reads a scale again only after
// its object changed.
//
//	versions := scalecache.Watch(ctx, client.Metadata(), client.Mapper(), scalecache.WatchOptions{Access: client})
//	scales := scalecache.New(client, versions)
package scalecache
