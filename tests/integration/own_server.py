"""Tests that start servers of their own, which end with them."""

import unittest

from server_process import Api, Server


class OwnServerTestCase(unittest.TestCase):
    BUCKETS = "64x64,256x256"

    def start(self, *arguments):
        server = Server(*arguments, buckets=self.BUCKETS)
        self.addCleanup(server.kill)
        server.start()
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api
