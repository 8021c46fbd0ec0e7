"""analysis - what the results say: data frames in, data frames out; nothing here prints or draws"""
