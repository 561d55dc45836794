// Package redis is the store engine that many instances share: records and logs in a Redis server,
// behind Sentinel, or in a Redis Cluster. Any instance can serve any key, and swapped records
// survive the instances, as far as the server's own persistence and replication go (see
// docs/operate/redis.md).
//
//	options, err := redis.ParseURL("redis://user:secret@10.0.0.1:6379/0")
//	…
//	options.TTL = 24 * time.Hour
//	s, err := redis.New(options)
//	…
//	defer s.Close()
//
// # Layout
//
// Keys are spread over 256 buckets by the CRC-16 of their name. Each bucket has its own hash tag,
// so that the keys of a target are in one slot of a Cluster. The tags spread the buckets evenly
// over the slots:
//
//	{prefix}{tag}h:{cluster}/{namespace}/{target}  string: the record
//	{prefix}{tag}l:{cluster}/{namespace}/{target}  list: the log, without what is in the next
//	{prefix}{tag}c:{cluster}/{namespace}/{target}  list: the log's entries that are kept longer
//	{prefix}{tag}d:{cluster}/{namespace}/{target}  string: when the record was deleted
//	{prefix}{tag}i                                 sorted set: the bucket's keys that have a record
//	{prefix}{tag}p                                 string: written by Ping
//	{prefix}{tag}f                                 stream: a part of the feed, in four of the buckets
//	{prefix}{tag}ft                                sorted set: its entries by cluster and namespace
//
//	{prefix}instances                              sorted set: what instances say of themselves, by
//	                                               when that ends
//	{prefix}agents:{platform}                      sorted set: the agents that act on a platform, likewise
//	{prefix}secret:{name}                          string: a secret that instances agreed on
//
// A part of a target (see store.Parts) has the same keys, with a letter before those letters:
// {tag}sh: for specs, {tag}oh: for observations, and {tag}vh:{cluster}/-/- for the overrides of a
// cluster.
//
// A record is a format byte, a random version of 8 bytes, and the value. It is swapped by a script
// that compares the version, writes, and enters a new key into the index; the caller chooses the
// version, so that a swap whose reply was lost can be sent again and takes effect once. Records and
// logs expire by Redis' own clock; an expired key stays in the index until a listing or a sweep
// removes it. Creating keys triggers the sweeps.
//
// An element of a log is a format byte, a number of seven bytes, by which pages are found, and the
// value; see log.go for those that are kept longer.
//
// The store chooses the ids of the feed's entries: the milliseconds of the server's clock, and the
// number of the previous entry plus one.
//
// The server needs scripts: Redis 6.2 or newer, or a server that is compatible with it. Scripts
// name all their keys.
package redis
