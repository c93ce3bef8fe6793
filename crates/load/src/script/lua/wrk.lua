-- The table `wrk` as wrk's scripts expect it. Written for Holdfast; the names and their meaning are wrk's.
wrk = { scheme = "http", host = "localhost", port = nil, method = "GET", path = "/", headers = {}, body = nil, thread = nil }

function wrk.format(method, path, headers, body)
  method, path, headers, body = method or wrk.method, path or wrk.path, headers or wrk.headers, body or wrk.body
  headers["Host"] = headers["Host"] or wrk.headers["Host"]
  headers["Content-Length"] = body and #body or nil
  local lines = { method .. " " .. path .. " HTTP/1.1" }
  for name, value in pairs(headers) do
    lines[#lines + 1] = name .. ": " .. tostring(value)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = body or ""
  return table.concat(lines, "\r\n")
end
