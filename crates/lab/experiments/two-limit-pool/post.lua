-- Every request is a POST, as in the report's script.
wrk.method = "POST"
wrk.body = "name=holdfast&value=1"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
