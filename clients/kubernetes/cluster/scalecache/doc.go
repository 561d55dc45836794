// Package scalecache reads a scale again only when its object has changed, which it watches.
//
//	versions := scalecache.Watch(ctx, client.Metadata(), client.Mapper(), scalecache.WatchOptions{Access: client})
//	scales := scalecache.New(client, versions)
package scalecache
