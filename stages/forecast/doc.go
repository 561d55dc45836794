// Package forecast keeps what a target needed per quarter of an hour, and says from it what the target will need:
// what it needed at this time of earlier days, or of this day of earlier weeks.
//
//	ring.Add(forecast.Closed{Bucket: b, Replicas: 9, Of: basis.Hash()}, basis, settings.Season)
//	outlook := ring.Outlook(&settings, forecast.BucketOf(now))
//	replicas, days := outlook.At(&settings, now)
//	outlook.Back.Problem() // why it is not to be trusted; empty: it is
//
// A bucket is a quarter of an hour since the Unix epoch. "This time" is wall time of a zone: of an hour that a day has
// twice the larger value counts, and a day without that hour leaves its value out. The forecast is the nearest-rank
// quantile of the values, over each bucket from now to the lead; the largest of these counts. It is tested on the
// closed buckets of the last seven days, each with values of the days before only.
//
// Everything here is a pure function of its arguments.
package forecast
