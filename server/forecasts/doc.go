// Package forecasts keeps the record of what each target with a forecast needed in the last weeks: it alone reads and
// writes it. Its form is a ring of package stages/forecast.
//
//	rings := forecasts.New(records, records, options)
//	past := &stages.Past{Basis: plan.Forecast.Basis.For(incarnation)}
//	rings.Recall(ctx, []forecasts.Asked{{Key: key, Now: now, Of: plan.Forecast, Past: past}})
//	// … decide with past, record the decision …
//	if past.HasClosed {
//		rings.Add(forecasts.Closed{Key: key, Bucket: past.Closed, Basis: past.Basis, Season: plan.Forecast.Season})
//	}
//
// A record has 1.4 to 5 kB, is read at most once in a quarter of an hour and instance, and is written as often, in the
// background. Targets without a forecast have none.
package forecasts
