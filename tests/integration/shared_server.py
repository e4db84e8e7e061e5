"""Tests that ask one server, which has to end well after the last of them."""

import unittest

from server_process import SMALL_BUCKETS, Api, Server


class SharedServerTestCase(unittest.TestCase):
    ARGUMENTS = ()
    BUCKETS = SMALL_BUCKETS

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGUMENTS, buckets=cls.BUCKETS)
        cls.addClassCleanup(cls.server.kill)
        cls.api = Api(cls.server.start().address)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        assert cls.server.stop() == 0, cls.server.log()
