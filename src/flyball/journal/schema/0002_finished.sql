-- What was spent in the last day or week is asked before every turn of a run that has such a budget.
CREATE INDEX event_finished ON event (at) WHERE kind = 'ActFinished';
